-- J19: every scope of the branch replays, once per observed tip, and that tip is the new base.
-- KEYS branch lease, record, scopes   ARGV token, number, tip, target prefix, hint prefix
if ARGV[1] ~= '' and not holds(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
if redis.call('HGET', KEYS[2], 'rewrite') == ARGV[3] then return 2 end
redis.call('HSET', KEYS[2], 'rewrite', ARGV[3], 'base', ARGV[3])
replay_all(KEYS[3], ARGV[4], ARGV[5])
return 1
