-- J14. ARGV per scope: marks, scope, reason, parked for ms, hint channel
for i = 1, #ARGV, 5 do
  raise_wanted(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
  redis.call('PUBLISH', ARGV[i + 4], '')
end
return 1
