-- A record that status shows; a change is hinted, a repetition is not.
-- KEYS hash   ARGV field, value or '' to drop, hint channel
local before = redis.call('HGET', KEYS[1], ARGV[1])
if ARGV[2] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
if (before or '') ~= ARGV[2] then redis.call('PUBLISH', ARGV[3], '') end
return 1
