-- Has the daemon's view count the entries that it has not seen, a bounded number at a time. A view
-- that is new, or for which entries are trimmed that it would need, begins with its windows.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it · then the longest window in ms · and for each limit
--       what operations cost there in units, ",videos.list=1,search.list=100"
-- reply [status, now in ms, epoch, newest entry, server's clock in ms]: done · behind (call again) ·
--       or why the account is not ready

local span = tonumber(ARGV[4])
if stale_period then return answer('period') end
if lost() then return answer('lost') end
if quiet ~= '' then return refuse('quiet') end
begin()

local anew = not v or before(v[SEEN], v[SEEN_SEQ], trimmed_ms, trimmed_seq) or redis.call('HLEN', view) == 0
for i = 1, anew and 0 or count do
  local w = 5 + 5 * i
  if v[w + DUE] > 0 and before(v[w + GONE], v[w + GONE_SEQ], trimmed_ms, trimmed_seq) then anew = true end
end
if anew then
  redis.call('DEL', view)
  local prices = {}
  v = { last_ms, last_seq, 0, 0, 0, 0, 0, 0, span, 0 }
  for i = 1, count do
    prices[2 * i - 1], prices[2 * i] = 'p' .. i, ARGV[4 + i]
    local w, ms, seq = 5 + 5 * i, cutoffs[i], MAX
    if before(ms, seq, trimmed_ms, trimmed_seq) then ms, seq = trimmed_ms, trimmed_seq end
    v[w + GONE], v[w + GONE_SEQ], v[w + DUE], v[w + SUM], v[w + RUN] = ms, seq, 0, 0, 0
    if before(ms, seq, v[SEEN], v[SEEN_SEQ]) then v[SEEN], v[SEEN_SEQ] = ms, seq end
  end
  v[FROM], v[FROM_SEQ] = v[SEEN], v[SEEN_SEQ]
  views[digest] = v
  redis.call('HSET', view, unpack(prices))
end
local all = fold()
save()
keep(v[SPAN])
save()
return answer(all and 'done' or 'behind')
