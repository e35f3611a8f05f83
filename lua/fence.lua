-- Tells what a daemon's last call did, and has an earlier one not be carried out any more, should
-- it still be on its way.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it
-- reply [status, now in ms, epoch, newest entry, server's clock in ms, what is closed, the number of the call, what
--       it did: of acquire its first grant's ms and number, packed, and 1 or 0 for each request]
--       status  done · stray (nobody waits for this call any more) · or why the account is not ready

local unready = ready()
if unready and unready ~= 'more' then return refuse(unready) end
if stray() then return answer('stray') end
if not mine or mine.boot ~= boot then
  remember('')
  mine.made = 0
end
mine.call, mine.ms = call, now
save()
local reply = answer('done')
reply[7], reply[8] = mine.made, mine.what
return reply
