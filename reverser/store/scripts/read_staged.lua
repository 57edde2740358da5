-- J5: named objects of a replay until a number of bytes is reached (at least one). A missing one ends the answer.
-- KEYS staging   ARGV bytes, then names
local out, bytes = {}, 0
for i = 2, #ARGV do
  local value = redis.call('HGET', KEYS[1], ARGV[i])
  if not value then return out end
  out[#out + 1] = value
  bytes = bytes + #value
  if bytes >= tonumber(ARGV[1]) then return out end
end
return out
