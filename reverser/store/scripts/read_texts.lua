-- The texts of events, in order, until a number of bytes is reached (at least one); an entry that is gone ends the
-- list. KEYS stream   ARGV bytes, ids...
local out, bytes = {}, 0
for i = 2, #ARGV do
  if #out > 0 and bytes >= tonumber(ARGV[1]) then return out end
  local found = redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i])[1]
  if not found then return out end
  local text = ''
  for j = 1, #found[2], 2 do
    if found[2][j] == 'b' then text = found[2][j + 1] end
  end
  out[#out + 1] = text
  bytes = bytes + #text
end
return out
