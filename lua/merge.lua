-- Ends the quiet period after a loss: puts the staged entries back in their order, a bounded
-- number at a time. It is a daemon that has waited who says so: the server's clock may be set
-- meanwhile.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view · 6 staged
-- ARGV  1… the head, as account.lua reads it · then the quiet period's name · the longest window in ms
-- reply [status, now in ms, epoch, newest entry, server's clock in ms]: done · more (call again) ·
--       lost (restore first) · quiet (another period has begun; its name follows)

local staged = KEYS[6]
local name, span = ARGV[4], tonumber(ARGV[5])
if lost() then return answer('lost') end
if quiet == '' then return answer('done') end
if quiet ~= name then return refuse('quiet') end

-- What the server numbered says that its clock was there, even if it is set back since.
local newest = redis.call('ZRANGE', staged, -64, -1)
for n = 1, #newest do
  local ms, seq = string.match(newest[n], '^%d+ (%d+)-(%d+)')
  if numbered_here(tonumber(seq)) then now = math.max(now, tonumber(ms)) end
end

local STEP = 256
local entries = redis.call('ZRANGE', staged, 0, STEP - 1)
for n = 1, #entries do
  local id, entry = string.match(entries[n], '^%d+ (%S+) (.*)$')
  put_back(id, id, entry)
end
if #entries > 0 then redis.call('ZREM', staged, unpack(entries)) end
if #entries < STEP then quiet = '' end
drop_views()
save()
keep(span)
save()
return answer(#entries < STEP and 'done' or 'more')
