-- Audit facts into their slots. Repeating a batch changes nothing; a fact's time to live starts once.
-- An exact slot that two authors claim names nobody: one of them reported a version he did not make.
-- A removal keeps its first fact: asking again to delete what is being deleted changes nothing. Somebody
-- else whose request may have come first, though it is heard of later, makes it uncertain.
-- A conflict remembers the two authors whose requests were received first: who is in doubt is told by them.
-- `last` is the newest by stage time.
-- A fact is noted as unused, with the time at which it ages out, when it is the first in a slot of its own.
-- KEYS unused facts, then slots
-- ARGV ttl ms, hint channel, hint payload, then per slot: mode, author, stage time, value
local UNCOUNTED = 300000
local ttl = ARGV[1]
local fresh = {}
local expiry = now_ms() + tonumber(ttl)

local function text(value)
  return type(value) == 'string' and value or ''
end

local function fields(value)
  local known, fact = pcall(cjson.decode, value)
  return known and type(fact) == 'table' and fact or nil
end

-- Of the claims so far and one more the two earliest, of one author his earliest.
local function conflict(claims, author, received)
  local earliest, names, parts = {[author] = received}, {author}, {}
  for _, claim in ipairs(claims) do
    local name, at = text(claim.author), text(claim.received)
    if not earliest[name] then names[#names + 1] = name end
    if not earliest[name] or at < earliest[name] then earliest[name] = at end
  end
  table.sort(names, function(a, b)
    return earliest[a] < earliest[b] or (earliest[a] == earliest[b] and a < b)
  end)
  for i = 1, math.min(#names, 2) do
    parts[i] = '{"author":' .. cjson.encode(names[i]) .. ',"received":' .. cjson.encode(earliest[names[i]]) .. '}'
  end
  return '{"conflict":true,"claims":[' .. table.concat(parts, ',') .. ']}'
end

-- Whether the request of a removal that is heard of later may have been the first one.
local function may_be_first(fact, stage, received)
  local stamp = text(fact.stageTimestamp)
  if stage == '' or stamp == '' or stage < stamp then return true end
  return received ~= '' and received <= stamp
end

for i = 1, #KEYS - 1 do
  local key = KEYS[i + 1]
  local mode, author, stage, value = ARGV[4 * i], ARGV[4 * i + 1], ARGV[4 * i + 2], ARGV[4 * i + 3]
  local before = redis.call('GET', key)
  local fact = before and fields(before)
  local keep = fact and before or value
  if fact and mode == 'last' then
    if stage >= text(fact.stageTimestamp) then keep = value end
  elseif fact and (fact.conflict or fact.author ~= author) then
    local received = text(cjson.decode(value).requestReceivedTimestamp)
    if type(fact.claims) == 'table' then
      keep = conflict(fact.claims, author, received)
    elseif fact.conflict then
      keep = before
    elseif mode == 'claim' or may_be_first(fact, stage, received) then
      local claim = {author = fact.author, received = fact.requestReceivedTimestamp}
      keep = conflict({claim}, author, received)
    end
  end
  if not before and mode ~= 'last' then
    fresh[#fresh + 1] = expiry
    fresh[#fresh + 1] = key
  end
  if keep ~= before then redis.call('SET', key, keep, 'PX', ttl) end
end
if #fresh > 0 then
  redis.call('ZADD', KEYS[1], unpack(fresh))
  redis.call('PEXPIRE', KEYS[1], ttl + UNCOUNTED)
end
if ARGV[3] ~= '' then redis.call('PUBLISH', ARGV[2], ARGV[3]) end
return #KEYS - 1
