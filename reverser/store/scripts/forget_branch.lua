-- Only a branch with nothing unsettled is forgotten, by its holder.
-- KEYS branch lease, lease index, stream, due, branches, then everything beside the stream
-- ARGV token, number, branch id
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
if redis.call('XLEN', KEYS[3]) > 0 then return 0 end
redis.call('ZREM', KEYS[4], ARGV[3])
redis.call('HDEL', KEYS[5], ARGV[3])
for i = 6, #KEYS do redis.call('DEL', KEYS[i]) end
redis.call('DEL', KEYS[3], KEYS[1])
redis.call('HDEL', KEYS[2], ARGV[3])
return 1
