-- J15: a push landed whose windows were settled otherwise; the tree is put right by a replay.
-- KEYS branch lease, strays, scopes   ARGV token, number, intent id, target prefix, hint prefix
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
if redis.call('HDEL', KEYS[2], ARGV[3]) == 1 then replay_all(KEYS[3], ARGV[4], ARGV[5]) end
return 1
