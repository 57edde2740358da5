-- J9. The gate names the branch; only a branch that has a journal can be woken.
-- KEYS gates, due, branches   ARGV uid, branch lease prefix, journal prefix, hint channel
local gate = redis.call('HGET', KEYS[1], ARGV[1])
if not gate then return 0 end
local branch = cjson.decode(gate).branch
if not branch or branch == cjson.null then return 0 end
local flat = redis.call('HGETALL', KEYS[3])
for i = 1, #flat, 2 do
  local known = cjson.decode(flat[i + 1])
  if known.namespace == branch.namespace and known.provider == branch.provider and known.branch == branch.branch then
    redis.call('HSET', ARGV[3] .. flat[i] .. ':record', 'woken', '1')
    make_due(KEYS[2], ARGV[2] .. flat[i], flat[i], ARGV[4])
  end
end
return 1
