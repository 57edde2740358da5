-- The beat: a branch with something unsettled and no score gets one. Answers how many got one.
-- KEYS due, branches   ARGV journal prefix, lease prefix, hint channel
local woken = 0
for _, id in ipairs(redis.call('HKEYS', KEYS[2])) do
  if not redis.call('ZSCORE', KEYS[1], id) and redis.call('EXISTS', ARGV[2] .. id) == 0 then
    local stream = ARGV[1] .. id
    if redis.call('XLEN', stream) > 0 or redis.call('EXISTS', stream .. ':intents') == 1 then
      make_due(KEYS[1], ARGV[2] .. id, id, ARGV[3])
      woken = woken + 1
    end
  end
end
return woken
