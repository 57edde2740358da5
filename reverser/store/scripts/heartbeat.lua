-- KEYS process, index   ARGV value, ttl s, id
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
redis.call('HSET', KEYS[2], ARGV[3], KEYS[1])
return 1
