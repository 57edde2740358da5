-- KEYS lease, index   ARGV token, number, id
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HDEL', KEYS[2], ARGV[3])
return 1
