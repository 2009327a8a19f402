"""Lua scripts, which Redis runs atomically.

Heads are JSON, so that they are compared as strings. The token of a head's last swap is stored too:
by it a swap that is sent again after a lost answer is recognised.
"""

from __future__ import annotations

# What the scripts share, sent before each of them. References of manifests and versions are one
# sorted set of `target \\0 referrer`.
SHARED = """
local function forget(members, references, loop)
  for _, member in ipairs(members) do
    local referrer = string.sub(member, 1, 21) .. loop
    redis.call('ZREM', references, string.sub(member, 22) .. '\\0' .. referrer)
  end
end
local function needed(references, target)
  local low, high = '[' .. target .. '\\0', '(' .. target .. '\\1'
  return #redis.call('ZRANGEBYLEX', references, low, high, 'LIMIT', 0, 1) > 0
end
local function unlink(segment, prefix)
  if segment and string.sub(segment, 1, 1) == 'C' then
    for i = 0, tonumber(string.sub(segment, 2, 16)) - 1 do
      redis.call('UNLINK', prefix .. string.sub(segment, 17, 48) .. ':' .. i)
    end
  end
end
"""

# KEYS: heads, tokens, versions of the loop, manifests, references, loops, segments of the loop, and
# of each segment that is required, the segments of its loop
# ARGV: loop, expected or "", head, token, version prefix, version or "", restart, name, data,
# number of references, references..., the fields of required segments..., the fields and values of
# new segments of the loop...
# Returns 1; 0 if the head is not the expected one; -k if the k-th required segment is missing.
SWAP = """
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[4] then return 1 end
local head = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if head ~= ARGV[2] then return 0 end
local count = tonumber(ARGV[10])
for k = 8, #KEYS do
  if redis.call('HEXISTS', KEYS[k], ARGV[3 + count + k]) == 0 then return 7 - k end
end
for k = 4 + count + #KEYS, #ARGV, 2 do
  redis.call('HSET', KEYS[7], ARGV[k], ARGV[k + 1])
  redis.call('SADD', KEYS[6], ARGV[1])
end
if ARGV[7] == '1' then
  forget(redis.call('ZRANGE', KEYS[3], 0, -1), KEYS[5], ARGV[1])
  redis.call('DEL', KEYS[3])
end
if ARGV[6] ~= '' then
  local low, high = '[' .. ARGV[5], '(' .. ARGV[5] .. '\\255'
  forget(redis.call('ZRANGEBYLEX', KEYS[3], low, high), KEYS[5], ARGV[1])
  redis.call('ZREMRANGEBYLEX', KEYS[3], low, high)
  redis.call('ZADD', KEYS[3], 0, ARGV[6])
  redis.call('ZADD', KEYS[5], 0, string.sub(ARGV[6], 22) .. '\\0' .. ARGV[5] .. ARGV[1])
end
if ARGV[8] ~= '' then redis.call('HSET', KEYS[4], ARGV[8], ARGV[9]) end
for k = 11, 10 + count do
  redis.call('ZADD', KEYS[5], 0, ARGV[k] .. '\\0' .. ARGV[8])
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
"""

# KEYS: heads, tokens, versions of the loop, references. ARGV: loop, expected, token
# A full server may refuse the token, which only serves to recognise a second attempt.
DROP = """
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[3] then return 1 end
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
forget(redis.call('ZRANGE', KEYS[3], 0, -1), KEYS[4], ARGV[1])
redis.call('DEL', KEYS[3])
redis.pcall('HSET', KEYS[2], ARGV[1], ARGV[3])
return 1
"""

# KEYS: manifests, references. ARGV: of each manifest its name, number of references, references...
RELEASE = """
local gone, at = {}, 1
while at <= #ARGV do
  local name, count = ARGV[at], tonumber(ARGV[at + 1])
  if not needed(KEYS[2], name) then
    for k = at + 2, at + 1 + count do redis.call('ZREM', KEYS[2], ARGV[k] .. '\\0' .. name) end
    redis.call('HDEL', KEYS[1], name)
    gone[#gone + 1] = name
  end
  at = at + 2 + count
end
return gone
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
unlink(old, ARGV[4])
return 1
"""

# KEYS: segments of the loop, loops, references
# ARGV: loop, prefix of chunks, fields... Returns the fields that do not exist any more.
DELETE = """
local gone = {}
for f = 3, #ARGV do
  if not needed(KEYS[3], string.match(ARGV[f], '[^:]*$')) then
    unlink(redis.call('HGET', KEYS[1], ARGV[f]), ARGV[2])
    redis.call('HDEL', KEYS[1], ARGV[f])
    gone[#gone + 1] = ARGV[f]
  end
end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end
return gone
"""
