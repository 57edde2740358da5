-- J10: due branches move forward, so that each is handed out once in that time.
-- KEYS due, branches   ARGV limit, ms
local now = now_ms()
local out = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', int(now), 'LIMIT', 0, ARGV[1])) do
  local branch = redis.call('HGET', KEYS[2], id)
  if branch then
    redis.call('ZADD', KEYS[1], int(now + tonumber(ARGV[2])), id)
    out[#out + 1] = branch
  else
    redis.call('ZREM', KEYS[1], id)
  end
end
return out
