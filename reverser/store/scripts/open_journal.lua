-- J1, J4: the epoch is made once and dies with the data it stands for.
-- KEYS epoch, branches   ARGV fresh epoch, branch id, branch
redis.call('SET', KEYS[1], ARGV[1], 'NX')
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return redis.call('GET', KEYS[1])
