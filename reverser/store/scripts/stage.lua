-- J5: objects of a replay, by name, so that a retried stage counts once. 'size' keeps the bytes.
-- KEYS staging   ARGV ttl s, then pairs of field and value
redis.call('HSETNX', KEYS[1], 'size', 0)
local grown = 0
for i = 2, #ARGV, 2 do
  grown = grown + #ARGV[i + 1] - redis.call('HSTRLEN', KEYS[1], ARGV[i])
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call('HINCRBY', KEYS[1], 'size', grown)
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 1
