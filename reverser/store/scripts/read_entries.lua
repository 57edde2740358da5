-- Entries after an id until a number of bytes is reached (at least one). KEYS stream   ARGV after id, bytes
local out, bytes, from = {}, 0, '-'
if ARGV[1] ~= '' then from = '(' .. ARGV[1] end
while true do
  local page = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 256)
  for _, entry in ipairs(page) do
    if #out > 0 and bytes >= tonumber(ARGV[2]) then return out end
    out[#out + 1] = entry
    for i = 1, #entry[2], 2 do
      if entry[2][i] == 'n' then bytes = bytes + tonumber(entry[2][i + 1]) end
    end
  end
  if #page < 256 then return out end
  from = '(' .. page[#page][1]
end
