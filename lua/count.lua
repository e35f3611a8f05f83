-- Has the daemon's view count the entries that it has not seen, a bounded number at a time. A view
-- that is new, or for which entries are trimmed that it would need, begins with its windows.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it · then the longest window in ms · and for each limit
--       what operations cost there in units, ",videos.list=1,search.list=100"
-- reply [status, now in ms, epoch, newest entry, server's clock in ms]: done · behind (call again) ·
--       or why the account is not ready

local at = 7 + 4 * count
local span = tonumber(ARGV[at])
local T = tools()
if stale_period then return T.answer('period') end
if T.lost() then return T.answer('lost') end
if quiet ~= '' then return T.refuse('quiet') end
T.begin()

local anew = not v or T.before(v[SEEN], v[SEEN_SEQ], trimmed_ms, trimmed_seq) or redis.call('HLEN', view) == 0
for i = 1, anew and 0 or count do
  local w = 5 + 5 * i
  if v[w + DUE] > 0 and T.before(v[w + GONE], v[w + GONE_SEQ], trimmed_ms, trimmed_seq) then anew = true end
end
if anew then
  redis.call('DEL', view)
  local prices = {}
  v = { last_ms, last_seq, 0, 0, 0, 0, 0, 0, span, 0 }
  for i = 1, count do
    prices[2 * i - 1], prices[2 * i] = 'p' .. i, ARGV[at + i]
    local w, ms, seq = 5 + 5 * i, cutoffs[i], T.MAX
    if T.before(ms, seq, trimmed_ms, trimmed_seq) then ms, seq = trimmed_ms, trimmed_seq end
    v[w + GONE], v[w + GONE_SEQ], v[w + DUE], v[w + SUM], v[w + RUN] = ms, seq, 0, 0, 0
    if T.before(ms, seq, v[SEEN], v[SEEN_SEQ]) then v[SEEN], v[SEEN_SEQ] = ms, seq end
  end
  v[FROM], v[FROM_SEQ] = v[SEEN], v[SEEN_SEQ]
  redis.call('HSET', view, unpack(prices))
end
local all = T.fold()
save()
T.keep(v[SPAN])
save()
return T.answer(all and 'done' or 'behind')
