-- J16: the entries go and what became of them stays, in one step.
-- KEYS branch lease, stream, bytes, claimed, sweeps, boundaries, intents, record, outcomes, holds, released,
--      applied, digests, unsealed, last push, scopes, strays
-- ARGV token, number, order (JSON), outcome
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
local o = cjson.decode(ARGV[3])
local outcome = ARGV[4]
if o.boundary == '' or redis.call('HEXISTS', KEYS[6], o.boundary) == 0 then
  local left = 0
  for _, id in ipairs(o.entries) do left = left + #redis.call('XRANGE', KEYS[2], id, id) end
  if #o.entries > 0 and left == 0 then return 1 end
end
local unclaimed = false
for _, claims in pages(o.entries) do
  for _, claim in ipairs(redis.call('HMGET', KEYS[4], unpack(claims))) do
    if claim and claim ~= o.boundary then return 0 end
    unclaimed = unclaimed or not claim
  end
end
local now, freed = now_ms(), {}
local fresh = o.kind ~= 'unsealed'
local singly = o.entries
if o.event_bytes > 0 and not unclaimed then
  -- A claim stands exactly as long as its entry, so all events of the window are there and need not be read:
  -- ten thousand of them would keep everybody else waiting.
  local events = #o.entries
  singly = {}
  if o.attach ~= '' then events, singly = events - 1, {o.attach} end
  for _, ids in pages(o.entries, events) do
    redis.call('XDEL', KEYS[2], unpack(ids))
    redis.call('HDEL', KEYS[4], unpack(ids))
  end
  freed[o.uid] = o.event_bytes
  if o.kind == 'pushed' or o.kind == 'no-change' then
    for _, objects in pages(o.sensitive) do redis.call('HDEL', KEYS[14], unpack(objects)) end
  end
end
for _, id in ipairs(singly) do
  local entry = drop_entry(KEYS[2], KEYS[4], KEYS[5], o.staging_prefix, id, freed)
  if entry then
    if entry.k == 'unsealed' then
      -- Shown once per object and reason (J20).
      if redis.call('HGET', KEYS[14], entry.o) ~= o.reason then
        fresh = true
        redis.call('HSET', KEYS[14], entry.o, o.reason)
      end
    elseif entry.k == 'event' and (o.kind == 'pushed' or o.kind == 'no-change') then
      redis.call('HDEL', KEYS[14], entry.o)
    elseif entry.k == 'attach' then
      -- Every attach gets an outcome (J7): one of its own below, or that of the settlement.
      local request = cjson.decode(entry.m).uid
      local mark = o.request_prefix .. request:gsub('%%', '%%25'):gsub(':', '%%3A')
      redis.call('SET', mark, int(now) .. ' ' .. outcome, 'EX', o.request_ttl)
      redis.call('PUBLISH', o.request_hint .. request, '')
    elseif entry.k == 'retire' then
      for _, member in ipairs(redis.call('SMEMBERS', KEYS[16])) do
        if member:match('^[^|]*') == entry.u then redis.call('SREM', KEYS[16], member) end
      end
    elseif entry.k == 'sweep' then
      if o.kind == 'held' then
        redis.call('HSET', KEYS[10], entry.s,
          cjson.encode({outcome_id = o.id, held = o.held, since_ms = now}))
      elseif o.applied ~= '' then
        redis.call('HDEL', KEYS[10], entry.s)
        if entry.h ~= '' then redis.call('HDEL', KEYS[11], entry.s) end
      end
    end
  end
end
count_freed(KEYS[3], freed)
if o.boundary ~= '' then redis.call('HDEL', KEYS[6], o.boundary) end
-- An intent goes once every window that it names is settled.
local intents = redis.call('HGETALL', KEYS[7])
for i = 1, #intents, 2 do
  local open = false
  local intent = cjson.decode(intents[i + 1]:sub(intents[i + 1]:find(' ', 1, true) + 1))
  for _, w in ipairs(intent.windows) do
    if redis.call('HEXISTS', KEYS[6], w.boundary_id) == 1 then open = true end
  end
  if not open then
    redis.call('HDEL', KEYS[7], intents[i])
    -- Settled without a push of ours: one that is still on the wire may yet land on the same tip (J15).
    if not o.arrived then
      redis.call('HSET', KEYS[17], intents[i], intents[i + 1])
      redis.call('EXPIRE', KEYS[17], o.request_ttl)
    end
  end
end
for _, s in ipairs(o.staging) do redis.call('DEL', s) end
for _, d in ipairs(o.digests) do
  if d[2] == '' then redis.call('HDEL', KEYS[13], d[1]) else redis.call('HSET', KEYS[13], d[1], d[2]) end
end
if o.applied ~= '' then
  redis.call('SADD', KEYS[12], o.applied)
  redis.call('HDEL', o.applied_marks, o.applied_scope .. '|a')
  unpark(o.applied_marks, o.applied_scope)
end
for _, w in ipairs(o.wishes) do
  raise_wanted(w[1], w[2], w[3], w[4])
  redis.call('PUBLISH', w[5], '')
end
if o.has_base then
  if redis.call('HGET', KEYS[8], 'base') ~= o.base then redis.call('HDEL', KEYS[8], 'rewrite') end
  redis.call('HSET', KEYS[8], 'base', o.base)
end
if o.pushed then
  redis.call('HSET', KEYS[8], 'last_push', int(now))
  redis.call('SET', KEYS[15], int(now))
end
if fresh then
  redis.call('XADD', KEYS[9], 'MAXLEN', '~', o.kept, '*', 'o', outcome, 'id', o.id, 'ms', int(now))
end
for _, r in ipairs(o.requests) do
  redis.call('SET', r[1], int(now) .. ' ' .. r[2], 'EX', o.request_ttl)
  if r[4] then
    redis.call('XADD', KEYS[9], 'MAXLEN', '~', o.kept, '*', 'o', r[2], 'id', r[5], 'ms', int(now))
  end
  redis.call('PUBLISH', r[3], '')
end
redis.call('PUBLISH', o.target_hint, '')
redis.call('PUBLISH', o.outcome_hint, '')
return 1
