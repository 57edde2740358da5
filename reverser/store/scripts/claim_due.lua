-- J10: due branches move forward, so that each is handed out once in that time.
-- A clock that was put back would let what is due by it wait for the same moment to come again: all are due then,
-- and once more when every run that had read the clock before has given its lease back.
-- KEYS due, branches, clock   ARGV limit, ms
local now = now_ms()
local seen = redis.call('HMGET', KEYS[3], 'last', 'again')
local last, again = tonumber(seen[1] or '0'), tonumber(seen[2] or '0')
local back, once_more = now < last - 1000, again > 0 and now >= again
if back or now > last + 10000 then redis.call('HSET', KEYS[3], 'last', int(now)) end
if back then
  redis.call('HSET', KEYS[3], 'again', int(now + 60000))
elseif once_more then
  redis.call('HDEL', KEYS[3], 'again')
end
if back or once_more then
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. int(now), '+inf')) do
    redis.call('ZADD', KEYS[1], int(now), id)
  end
end
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
