-- Has the daemon's view count the entries that it has not seen, a bounded number at a time. A view
-- that is new, or for which entries are trimmed that it would need, begins with its windows.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it · then the longest window in ms · and for each limit
--       what operations cost there in units, ",videos.list=1,search.list=100", and whose calls it
--       counts, as account.lua says
-- reply [status, now in ms, epoch, newest entry, server's clock in ms]: done · behind (call again) ·
--       or why the account is not ready

local span = tonumber(ARGV[4])
if stale_period then return answer('period') end
if lost() then return answer('lost') end
if quiet ~= '' then return refuse('quiet') end
begin()

local anew = not v or before(v.seen, v.seen_seq, trimmed_ms, trimmed_seq) or redis.call('HLEN', view) == 0
for i = 1, anew and 0 or count do
  if v[i].due > 0 and before(v[i].gone, v[i].gone_seq, trimmed_ms, trimmed_seq) then anew = true end
end
if anew then
  redis.call('DEL', view)
  local prices = {}
  v = { seen = last_ms, seen_seq = last_seq, n = 0, blocks = 0, first = 0, stale = 0, span = span, lives = 0 }
  for i = 1, count do
    prices[2 * i - 1], prices[2 * i] = 'p' .. i, ARGV[4 + i]
    local ms, seq = cutoffs[i], MAX
    if before(ms, seq, trimmed_ms, trimmed_seq) then ms, seq = trimmed_ms, trimmed_seq end
    v[i] = { gone = ms, gone_seq = seq, left = math.min(cutoffs[i], last_ms), due = 0, sum = 0, run = 0 }
    if before(ms, seq, v.seen, v.seen_seq) then v.seen, v.seen_seq = ms, seq end
  end
  v.from, v.from_seq = v.seen, v.seen_seq
  views[digest] = v
  redis.call('HSET', view, unpack(prices))
end
local all = fold()
save()
keep(v.span)
save()
return answer(all and 'done' or 'behind')
