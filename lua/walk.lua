-- Continues a walk that acquire could not end; it only reads. With 1 unit missing it finds the oldest entry that
-- charges a limit.
--
-- KEYS  as acquire's · ARGV  1 limit · 2 from, µs · 3 missing units · 4 length
-- reply retry · 0 · what the last entry charges there; or how far it got · the units missing there · 0

local from, missing = ARGV[2] * 1, ARGV[3] * 1
local page = after(from, WALK)
if #page == 0 then return { clock + ARGV[4], 0, 0 } end
for j, entry in ipairs(entries(page)) do
  local charged = units(entry, ARGV[1])
  missing, from = missing - charged, page[2 * j] * 1
  if missing <= 0 then return { from + ARGV[4], 0, charged } end
end
return { from, missing, 0 }
