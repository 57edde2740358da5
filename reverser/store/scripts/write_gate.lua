-- J21: KEYS gates   ARGV uid, gate or '', gate hint, target hint
if ARGV[2] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
redis.call('PUBLISH', ARGV[3], ARGV[1])
redis.call('PUBLISH', ARGV[4], '')
return 1
