-- J14. KEYS marks   ARGV hint channel, 'park' or 'unpark', scope, reason, parked for ms
if ARGV[2] == 'unpark' then
  unpark(KEYS[1], ARGV[3])
  redis.call('PUBLISH', ARGV[1], '')
else
  local till = 0
  if tonumber(ARGV[5]) > 0 then till = now_ms() + tonumber(ARGV[5]) end
  redis.call('HSET', KEYS[1], ARGV[3] .. '|p', ARGV[4], ARGV[3] .. '|t', int(till))
end
return 1
