-- Ends the rest after a loss. It is a daemon that has waited who says so: the server's
-- clock may be set meanwhile.
--
-- KEYS  1 account
-- ARGV  1… the head, as read_head reads it · then the name of the rest
-- reply [status, now in ms, epoch, newest entry]: done · lost (restore first)

local account = KEYS[1]
local head, at = read_head()
local a = load_account(account, head)
if lost(a, head) then return answer(a, 'lost') end
if a.rest == ARGV[at] then
  a.rest = '0'
  save(account, a, {})
end
return answer(a, 'done')
