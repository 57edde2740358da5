-- J13: from here on the window is finalized. An entry is in one boundary at most, and a boundary never moves.
-- KEYS branch lease, stream, boundaries, claimed, record, sweeps
-- ARGV token, number, boundary id, boundary, then the bound attach or '', then entry ids in stream order
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
local have = redis.call('HGET', KEYS[3], ARGV[3])
if have then
  if have:sub(have:find(' ', 1, true) + 1) == ARGV[4] then return 1 end
  return 0
end
local first, last = 6, #ARGV
if ARGV[5] ~= '' then first = 5 end
local claims = {}
for i = first, last do claims[#claims + 1] = ARGV[i] end
for _, ids in pages(claims) do
  for _, claim in ipairs(redis.call('HMGET', KEYS[4], unpack(ids))) do
    if claim then return 0 end
  end
end
-- Nobody but the holder settles events, and a Redis that went back in time lacks the newest ones: the ends of
-- the window and its attach stand for the rest. A sweep that was superseded is gone alone; it is its own window.
local entry
for _, i in ipairs({first, 6, last}) do
  entry = fields_of(KEYS[2], ARGV[i])
  if not entry then return 0 end
end
for _, ids in pages(claims) do
  local fields = {}
  for _, id in ipairs(ids) do
    fields[#fields + 1] = id
    fields[#fields + 1] = ARGV[3]
  end
  redis.call('HSET', KEYS[4], unpack(fields))
end
if entry.k == 'sweep' then
  local field = entry.u .. '|' .. entry.s
  local pending = redis.call('HGET', KEYS[6], field)
  if pending and pending:match('^%S+') == ARGV[last] then redis.call('HDEL', KEYS[6], field) end
end
local order = int(redis.call('HINCRBY', KEYS[5], 'order', 1))
redis.call('HSET', KEYS[3], ARGV[3], order .. ' ' .. ARGV[4])
return 1
