-- Empties a credential's log, so that every limit starts from zero, and leaves a
-- trace in the new one. The newest entry's id is kept: ids only grow. Asked again
-- after a lost reply, a call takes nothing of what was granted since.
--
-- KEYS  1 account · 2 log · 3 settled · 4 keys
-- ARGV  1… the head, as read_head reads it · then for each limit its prices, as for
--       count · by · region · the trace's note
-- reply [status, now in ms, epoch, newest entry]: done

local account, log = KEYS[1], KEYS[2]
local head, at = read_head()
local limits = head.limits
local a = load_account(account, head)
if a.call == head.call then return answer(a, 'done') end
begin(a, head)

redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
a.trimmed, a.lost, a.fresh, a.stale, a.settlements = a.last, 0, 0, 0, 0
local more, charges = { 'epoch', a.epoch, 'conf', conf_of(limits), 'absent', '', 'c:' .. head.daemon, head.call }, {}
for i, limit in ipairs(limits) do
  limit.tally = {
    sum = 0, credit = 0, gone_ms = a.last_ms, gone_seq = a.last_seq, seen = '-', due = 0, basis = limit.basis,
  }
  more[#more + 1], more[#more + 2] = 'p:' .. limit.name, ARGV[at + i - 1]
  charges[i] = 0
end
at = at + #limits
append(a, log, limits, { operation = '', count = 0, by = ARGV[at], region = ARGV[at + 1], key = '', note = ARGV[at + 2] }, charges)
save(account, a, limits, more)
refresh(a, limits)
save(account, a, limits)
return answer(a, 'done')
