-- KEYS gates, then marks, path and kept of each target; ARGV targets
local out = {}
for i, uid in ipairs(ARGV) do
  out[i] = {
    redis.call('HGET', KEYS[1], uid),
    redis.call('HGETALL', KEYS[3 * i - 1]),
    redis.call('HGET', KEYS[3 * i], 'skipped'),
    redis.call('HGETALL', KEYS[3 * i + 1]),
  }
end
return out
