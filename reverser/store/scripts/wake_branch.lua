-- J9: due now; while the branch is leased the wake is left for the release.
-- KEYS due, branch lease, branches, record   ARGV branch id, branch, hint channel
redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[4], 'woken', '1')
make_due(KEYS[1], KEYS[2], ARGV[1], ARGV[3])
return 1
