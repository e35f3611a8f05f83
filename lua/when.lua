-- Finds when enough units leave a window, reading on from where it stopped
-- before. Writes nothing.
--
-- KEYS  1 account · 2 log · 3 settled
-- ARGV  1… the head, as read_head reads it · then the limit's number · the
--       charge in units · 1 if it may use the reserve, else 0 · the entry read last,
--       empty to begin · the units still missing · the credit left
-- reply [status, ms or entry read last, missing, credit]: done with the ms at which
--       the charge fits, 0 if it does now; or more with where to read on

local account, log, settled = KEYS[1], KEYS[2], KEYS[3]
local head, at = read_head()
local limits = head.limits
local a = load_account(account, head)
local limit = limits[tonumber(ARGV[at])]
local charge, use_reserve, from = tonumber(ARGV[at + 1]), ARGV[at + 2] == '1', ARGV[at + 3]
local missing, credit = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])

local t = limit.tally
if from == '' then
  from, credit = entry_id(t.gone_ms, t.gone_seq), t.credit
  missing = t.sum - t.credit + charge - (use_reserve and limit.units or limit.units - limit.reserve)
end
local caught_up = catching_up(a, limit)
if missing <= 0 or limit.length == 0 then return { 'done', missing <= 0 and caught_up or limit.ends, '', '' } end
local fits, last, still, left = walk(account, log, settled, limit, from, missing, credit)
if fits then return { 'done', math.max(fits, caught_up), '', '' } end
return { 'more', last, int(still), int(left) }
