-- Sets a grant to what was really spent, and leaves a trace in the log.
--
-- KEYS  1 account · 2 log · 3 settled · 4 keys
-- ARGV  1… the head, as read_head reads it · then the grant's entry id · the units
--       really spent · by · region · the trace's note
-- reply [status, now in ms, epoch, newest entry, then of done: per limit the entry's
--       recorded charge, 0 where there is none, and the units used]
--       status  done · unknown (in no window, or not a grant) · overflow (a limit
--               would hold more than 2^53-1) · more (acquire first, too much has left
--               the windows) · or why the account is not_ready

local account, log, settled, keys = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local head, at = read_head()
local limits = head.limits
local id, spent, by, region, note = unpack(ARGV, at, at + 4)
local a = load_account(account, head)
local unready = not_ready(a, head)
if unready then return answer(a, unready) end
for _, limit in ipairs(limits) do
  local taken, more = advance(account, log, settled, limit, BUDGET)
  a.stale = a.stale + taken
  if more then return answer(a, 'more') end
end

local entry = redis.call('XRANGE', log, id, id)[1]
if not entry then -- put back after a loss, its place in the log was taken
  id = redis.call('HGET', keys, '=' .. id) or id
  entry = redis.call('XRANGE', log, id, id)[1]
end
if not entry or field(entry, 'o') == '' or not counted(limits, id) then return answer(a, 'unknown') end

if redis.call('HGET', settled, id) ~= spent then
  local before_settling = {}
  for i, limit in ipairs(limits) do before_settling[i] = price(account, settled, limit, entry) end
  local earlier = redis.call('HGET', settled, id)
  put(a, settled, id, spent)
  local changes = {}
  local ms, seq = id_parts(id)
  for i, limit in ipairs(limits) do
    changes[i] = 0
    if before(limit.tally.gone_ms, limit.tally.gone_seq, ms, seq) then
      changes[i] = price(account, settled, limit, entry) - before_settling[i]
    end
    if limit.tally.sum + changes[i] > 9007199254740991 then
      if earlier then redis.call('HSET', settled, id, earlier) else redis.call('HDEL', settled, id) end -- nothing is saved
      return answer(a, 'overflow')
    end
  end
  for i, limit in ipairs(limits) do
    local t = limit.tally
    t.sum = t.sum + changes[i]
    t.credit = math.min(t.credit, t.sum)
  end
  -- Limits that are not configured now cannot follow: they count anew if they return.
  for name in string.gmatch(redis.call('HGET', account, 'absent') or '', '%S+') do redis.call('HDEL', account, 'l:' .. name) end
  local nothing = {}
  for i = 1, #limits do nothing[i] = 0 end
  append(a, log, limits, { operation = '', count = 0, by = by, region = region, key = '', note = note }, nothing)
  refresh(a, limits)
  save(account, a, limits)
end

local reply = answer(a, 'done')
for _, limit in ipairs(limits) do
  reply[#reply + 1] = amount(field(entry, 'u') or '', limit.name) or 0
  reply[#reply + 1] = limit.tally.sum - limit.tally.credit
end
return reply
