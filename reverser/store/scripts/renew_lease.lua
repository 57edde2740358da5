-- KEYS lease   ARGV token, number, ttl ms
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
