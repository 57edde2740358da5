-- How many keys match, one step of a scan at a time.
-- ARGV pattern, cursor
local step = redis.call('SCAN', ARGV[2], 'MATCH', ARGV[1], 'COUNT', 1000)
return {step[1], #step[2]}
