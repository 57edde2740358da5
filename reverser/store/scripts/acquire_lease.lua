-- A free lease is taken under a fresh number; asking again with the same token extends it.
-- KEYS lease, number, index, and for branches: record, due   ARGV token, ttl ms, holder, id, counter ttl s
local have = redis.call('HMGET', KEYS[1], 'token', 'number')
if have[1] and have[1] ~= ARGV[1] then return false end
local number = have[2]
if not number then
  number = int(redis.call('INCR', KEYS[2]))
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'number', number, 'holder', ARGV[3])
  if KEYS[4] then
    -- What woke the branch before is seen by whoever starts now; should that one die, the score brings another.
    redis.call('HDEL', KEYS[4], 'woken')
    redis.call('ZADD', KEYS[5], 'NX', int(now_ms() + tonumber(ARGV[2])), ARGV[4])
  end
end
redis.call('EXPIRE', KEYS[2], ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[3], ARGV[4], KEYS[1])
return number
