-- Continues a walk that acquire could not end; it only reads. With 1 unit missing it finds the oldest entry that
-- charges a limit.
--
-- KEYS  as acquire's · ARGV  1 limit · 2 from, µs · 3 missing units · 4 length
-- reply retry · 0 · what the last entry charges there; or how far it got · the units missing there · 0

local till, missing, charged = walk(ARGV[1], ARGV[2] * 1, ARGV[3] * 1, ARGV[4] * 1, WALK)
return { till, missing, charged }
