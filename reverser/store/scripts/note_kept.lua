-- Documents that the prune mode keeps: the objects by scope, so that a repeated note changes nothing, and beside
-- them one count for each scope, so that reading costs nothing. A replay tells all of its scope, a window what
-- came and went.
-- KEYS branch lease, kept (scope: count), objects (scope#object)
-- ARGV token, number, hint channel, news (JSON)
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return -1 end
local fresh, changed, now = 0, false, now_ms()
for _, part in ipairs(cjson.decode(ARGV[4])) do
  local prefix = part.scope .. '#'
  local text = redis.call('HGET', KEYS[2], part.scope)
  local before = text and cjson.decode(text) or {documents = 0, mode = ''}
  local gone, came = {}, {}
  for i, name in ipairs(part.kept) do came[i] = prefix .. name end
  for i, name in ipairs(part.back) do gone[i] = prefix .. name end
  if part.replay then
    local still = {}
    for _, member in ipairs(came) do still[member] = true end
    for _, member in ipairs(redis.call('SMEMBERS', KEYS[3])) do
      if member:sub(1, #prefix) == prefix and not still[member] then gone[#gone + 1] = member end
    end
  end
  local removed, added = 0, 0
  for _, members in pages(gone) do removed = removed + redis.call('SREM', KEYS[3], unpack(members)) end
  for _, members in pages(came) do added = added + redis.call('SADD', KEYS[3], unpack(members)) end
  local documents = before.documents - removed + added
  fresh = fresh + added
  if part.replay or removed + added > 0 then
    changed = changed or documents ~= before.documents or part.mode ~= before.mode
    redis.call('HSET', KEYS[2], part.scope,
      cjson.encode({mode = part.mode, documents = documents, counted_ms = now}))
  end
end
if changed then redis.call('PUBLISH', ARGV[3], '') end
return fresh
