-- J20: Git's blob is another than the digest's. KEYS branch lease, digests, marks
-- ARGV token, number, scope, hint channel, then digest fields
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
local gone = 0
for i = 5, #ARGV do gone = gone + redis.call('HDEL', KEYS[2], ARGV[i]) end
if gone > 0 then
  raise_wanted(KEYS[3], ARGV[3], '', '0')
  redis.call('PUBLISH', ARGV[4], '')
end
return 1
