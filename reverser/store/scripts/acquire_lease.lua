-- A free lease is taken under a fresh number; asking again with the same token extends it.
-- KEYS lease, number, index, branch record ('' for targets)   ARGV token, ttl ms, holder, id, counter ttl s
local have = redis.call('HMGET', KEYS[1], 'token', 'number')
if have[1] and have[1] ~= ARGV[1] then return false end
local number = have[2]
if not number then
  number = int(redis.call('INCR', KEYS[2]))
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'number', number, 'holder', ARGV[3])
  -- What woke the branch before is seen by whoever starts now.
  if KEYS[4] ~= '' then redis.call('HDEL', KEYS[4], 'woken') end
end
redis.call('EXPIRE', KEYS[2], ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[3], ARGV[4], KEYS[1])
return number
