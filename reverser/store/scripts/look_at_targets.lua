-- KEYS gates, then marks and path of each target; ARGV targets
local out = {}
for i, uid in ipairs(ARGV) do
  out[i] = {
    redis.call('HGET', KEYS[1], uid),
    redis.call('HGETALL', KEYS[2 * i]),
    redis.call('HGET', KEYS[2 * i + 1], 'skipped'),
  }
end
return out
