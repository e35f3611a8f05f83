-- Brings limits up to the log: counts, for each limit that is new, prices
-- operations differently, missed entries or looks back further than before, the
-- entries it has not counted, a bounded number at a time.
--
-- KEYS  1 account · 2 log · 3 settled · 4 keys
-- ARGV  1… the head, as read_head reads it · then for each limit its prices,
--       "videos.list=1 search.list=100", in units
-- reply [status, now in ms, epoch, newest entry]: done, or more (call again)

local account, log, settled = KEYS[1], KEYS[2], KEYS[3]
local head, at = read_head()
local limits = head.limits
local a = load_account(account, head)
if lost(a, head) then return answer(a, 'lost') end
begin(a, head)

-- Limits that were configured before, or are with other daemons, and are not here:
-- from now on they miss entries, so they remember how far they have counted.
local mine, absent = {}, {}
for _, limit in ipairs(limits) do mine[limit.name] = true end
for name in string.gmatch(redis.call('HGET', account, 'absent') or '', '%S+') do
  if not mine[name] then absent[#absent + 1] = name end
end
for name in string.gmatch(a.conf, '%S+') do
  if not mine[name] then
    local t = parse_tally('0', redis.call('HGET', account, 'l:' .. name))
    if t.seen == '-' then t.seen = a.last end
    redis.call('HSET', account, 'l:' .. name, format_tally(t))
    absent[#absent + 1] = name
  end
end

local status, budget = 'done', BUDGET
for i, limit in ipairs(limits) do
  local t = limit.tally
  local trimmed_ms, trimmed_seq = id_parts(a.trimmed)
  local anew = not t or t.basis ~= limit.basis or before(t.gone_ms, t.gone_seq, trimmed_ms, trimmed_seq)
    or (t.gone_ms > limit.cutoff and reaches_back(a, t))
  if anew then
    t = {
      sum = 0, credit = t and t.credit or 0, gone_ms = trimmed_ms, gone_seq = trimmed_seq,
      seen = a.trimmed, due = 0, basis = limit.basis,
    }
    limit.tally = t
    redis.call('HSET', account, 'p:' .. limit.name, ARGV[at + i - 1])
  end
  while t.seen ~= '-' and budget > 0 do
    local count = math.min(READ, budget)
    local entries = redis.call('XRANGE', log, '(' .. t.seen, '+', 'COUNT', count)
    for _, entry in ipairs(entries) do
      t.seen = entry[1]
      local ms, seq = id_parts(entry[1])
      if t.sum == 0 and ms <= limit.cutoff then
        t.gone_ms, t.gone_seq = ms, seq -- had left the window before it was counted
      else
        t.sum = t.sum + price(account, settled, limit, entry)
      end
    end
    budget = budget - count
    if #entries < count then
      t.seen, t.credit = '-', math.min(t.credit, t.sum)
    end
  end
  if t.seen ~= '-' then status = 'more' end
end

-- Until a limit has caught up it stays lagging, and deciding waits for it: the
-- entries written meanwhile by daemons without it are behind its mark as well.
if redis.call('PTTL', account) < 0 then a.fresh = 0 end
save(account, a, limits, { 'epoch', a.epoch, 'conf', conf_of(limits), 'absent', table.concat(absent, ' ') })
refresh(a, limits)
save(account, a, limits)
return answer(a, status)
