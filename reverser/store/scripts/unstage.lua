-- J5: objects of a replay that were staged and went away before its end. A retry takes nothing twice.
-- KEYS staging   ARGV names
local freed = 0
for i = 1, #ARGV do
  freed = freed + redis.call('HSTRLEN', KEYS[1], ARGV[i])
  redis.call('HDEL', KEYS[1], ARGV[i])
end
if freed > 0 then redis.call('HINCRBY', KEYS[1], 'size', -freed) end
return 1
