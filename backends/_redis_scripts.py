"""The steps that Redis does at once, as Lua scripts.

A head is kept as JSON, so that it is compared as a string; beside it the token of the swap that
made it, by which a swap that is sent again after a lost answer is known.
"""

from __future__ import annotations

__all__ = ["DELETE", "DROP", "PUT", "SWAP"]

# KEYS: heads, tokens, versions of the loop, manifests
# ARGV: loop, expected or "", head, token, version prefix, version or "", restart, name, data
SWAP = """
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[4] then return 1 end
local head = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if head ~= ARGV[2] then return 0 end
if ARGV[7] == '1' then redis.call('DEL', KEYS[3]) end
if ARGV[6] ~= '' then
  redis.call('ZREMRANGEBYLEX', KEYS[3], '[' .. ARGV[5], '(' .. ARGV[5] .. '\\255')
  redis.call('ZADD', KEYS[3], 0, ARGV[6])
end
if ARGV[8] ~= '' then redis.call('HSET', KEYS[4], ARGV[8], ARGV[9]) end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
"""

# KEYS: heads, tokens, versions of the loop. ARGV: loop, expected, token
DROP = """
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[3] then return 1 end
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[3])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return 1
"""

# KEYS: segments of the loop, loops. ARGV: loop, field, value, prefix of chunks, new chunks
PUT = """
local old = redis.call('HGET', KEYS[1], ARGV[2])
if old == ARGV[3] and tonumber(ARGV[5]) > 0 then return 1 end
for i = 0, tonumber(ARGV[5]) - 1 do
  local key = ARGV[4] .. string.sub(ARGV[3], 17, 48) .. ':' .. i
  if redis.call('EXISTS', key) == 0 then return 0 end
  redis.call('PERSIST', key)
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('SADD', KEYS[2], ARGV[1])
if old and string.sub(old, 1, 1) == 'C' then
  for i = 0, tonumber(string.sub(old, 2, 16)) - 1 do
    redis.call('UNLINK', ARGV[4] .. string.sub(old, 17, 48) .. ':' .. i)
  end
end
return 1
"""

# KEYS: segments of the loop, loops. ARGV: loop, prefix of chunks, fields...
DELETE = """
for f = 3, #ARGV do
  local old = redis.call('HGET', KEYS[1], ARGV[f])
  if old and string.sub(old, 1, 1) == 'C' then
    for i = 0, tonumber(string.sub(old, 2, 16)) - 1 do
      redis.call('UNLINK', ARGV[2] .. string.sub(old, 17, 48) .. ':' .. i)
    end
  end
  redis.call('HDEL', KEYS[1], ARGV[f])
end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end
return 1
"""
