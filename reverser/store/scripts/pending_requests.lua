-- CommitRequests that wait for their outcome, one step of a scan at a time.
-- ARGV pattern, cursor
local step = redis.call('SCAN', ARGV[2], 'MATCH', ARGV[1], 'COUNT', 1000)
local waiting = {}
for _, key in ipairs(step[2]) do
  local mark = redis.call('GET', key)
  if mark and mark:sub(1, 8) == 'pending ' then waiting[#waiting + 1] = key end
end
return {step[1], waiting}
