-- J23: a person names the held outcome; the sweep of the generation raised here runs without the brake.
-- KEYS holds, released, marks   ARGV outcome id, hint channel
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  if cjson.decode(flat[i + 1]).outcome_id == ARGV[1] then
    local have = redis.call('HGET', KEYS[2], flat[i])
    if have and have:match('^%d+ (.*)$') == ARGV[1] then return 1 end
    raise_wanted(KEYS[3], flat[i], '', '0')
    redis.call('HSET', KEYS[2], flat[i], redis.call('HGET', KEYS[3], flat[i] .. '|w') .. ' ' .. ARGV[1])
    redis.call('PUBLISH', ARGV[2], '')
    return 1
  end
end
return 0
