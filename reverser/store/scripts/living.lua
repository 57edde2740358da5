-- The members of an index whose own key still lives; the others are dropped.
-- KEYS index (id -> key)   ARGV 'holder' to read that hash field, 'value' to read the string
local out, flat = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local value
  if ARGV[1] == 'holder' then
    value = redis.call('HGET', flat[i + 1], 'holder')
  else
    value = redis.call('GET', flat[i + 1])
  end
  if value then
    out[#out + 1] = flat[i]
    out[#out + 1] = value
  else
    redis.call('HDEL', KEYS[1], flat[i])
  end
end
return out
