-- Continues a walk that acquire could not end; it only reads. With 1 unit missing it finds the oldest entry that
-- charges a limit.
--
-- KEYS  as acquire's · ARGV  1 limit · 2 from, µs · 3 missing units · 4 length
-- reply retry · 0 · what the last entry charges there; or how far it got · the units missing there · 0

local from, missing = ARGV[2], ARGV[3] * 1
local page, ids = redis.call('ZRANGEBYSCORE', log, '(' .. from, '+inf', 'WITHSCORES', 'LIMIT', 0, WALK), {}
if #page == 0 then return { clock + ARGV[4], 0, 0 } end
for j = 1, #page, 2 do ids[#ids + 1] = '=' .. page[j] end
for j, entry in ipairs(redis.call('HMGET', state, unpack(ids))) do
  local charges = string.match(entry or '', '^[^\n]*')
  local _, at = string.find(charges, ' ' .. ARGV[1] .. '=', 1, true)
  local units = at and string.match(charges, '^%d+', at + 1) * 1 or 0
  missing, from = missing - units, page[2 * j]
  if missing <= 0 then return { from + ARGV[4], 0, units } end
end
return { from * 1, missing, 0 }
