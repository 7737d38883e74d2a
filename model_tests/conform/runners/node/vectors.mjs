// Deletion vectors: DV index files and the portable Roaring bitmaps in them. Clauses: DVF-1 to DVF-14.

import { crc32 } from 'node:zlib'
import { expect } from './damaged.mjs'

const MAGIC_32 = 1581511376
const MAGIC_64 = 1681511377

/** Return the deleted positions by data file. `entry`: of the index manifest, `data`: the bytes of its file. */
export function vectorsOf(entry, data) {
  const name = entry._FILE_NAME
  const ranges = [...(entry._DELETIONS_VECTORS_RANGES ?? [])].sort((a, b) => a.f1 - b.f1)
  expect(entry._ROW_COUNT === BigInt(ranges.length), `${name}: ${ranges.length} vectors, not ${entry._ROW_COUNT}`)
  expect(data[0] === 1, `${name}: expected the version 1, found ${data[0]}`)
  const found = new Map()
  let at = 1
  for (const { f0: file, f1: offset, f2: length, _CARDINALITY: cardinality } of ranges) {
    expect(offset === at, `${name}: expected a vector at ${at}, found its range at ${offset}`)
    const [positions, end] = vector(name, data, at, length)
    expect(
      (cardinality ?? null) === null || cardinality === BigInt(positions.size),
      `${name}: ${positions.size} positions of ${file}, not ${cardinality}`,
    )
    expect(!found.has(file), `${name}: two vectors of ${file}`)
    found.set(file, positions)
    at = end
  }
  expect(at === data.length, `${name}: ${data.length - at} bytes are left over`)
  return found
}

/** Return the positions, as BigInt, of the vector at an offset, and the offset after it. */
function vector(name, data, offset, length) {
  const size = data.readInt32BE(offset)
  const body = data.subarray(offset + 4, offset + 4 + size)
  expect(size >= 4 && body.length === size, `${name}: a vector of ${size} bytes is cut off`)
  const sum = data.readUInt32BE(offset + 4 + size)
  expect(crc32(body) === sum, `${name}: the CRC-32 of a vector is another than ${sum}`)
  const is32 = body.readInt32BE(0) === MAGIC_32
  expect(is32 || body.readInt32LE(0) === MAGIC_64, `${name}: the magic of a vector is unknown`)
  expect(length === (is32 ? size : size + 8), `${name}: a vector of ${size} bytes in a range of ${length}`)
  const positions = new Set()
  let at = 4
  if (is32) {
    at = bitmap(name, body, at, (position) => positions.add(BigInt(position)))
  } else {
    const count = body.readBigInt64LE(at)
    let before = -1n
    at += 8
    for (let number = 0n; number < count; number++) {
      const key = BigInt(body.readInt32LE(at))
      expect(key > before, `${name}: the keys of a vector do not ascend`)
      before = key
      at = bitmap(name, body, at + 4, (position) => positions.add((key << 32n) | BigInt(position)))
    }
  }
  expect(at === size, `${name}: ${size - at} bytes of a vector are left over`)
  return [positions, offset + 8 + size]
}

/** Give each position of the Roaring bitmap at an offset to `add`; return the offset after it. */
function bitmap(name, data, start, add) {
  let at = start
  const u16 = () => data.readUInt16LE((at += 2) - 2)
  const cookie = u16()
  expect(cookie === 12346 || cookie === 12347, `${name}: expected a Roaring bitmap, found the cookie ${cookie}`)
  const hasRuns = cookie === 12347
  const count = hasRuns ? u16() + 1 : (at += 6, data.readInt32LE(at - 4))
  expect(count >= 0 && count <= 65536, `${name}: a Roaring bitmap of ${count} containers`)
  const flags = at
  if (hasRuns) at += (count + 7) >> 3
  const containers = Array.from({ length: count }, () => [u16(), u16() + 1])
  if (!hasRuns || count >= 4) at += 4 * count // offsets of the containers, which follow each other
  containers.forEach(([key, cardinality], number) => {
    const high = key * 65536
    if (hasRuns && (data[flags + (number >> 3)] >> (number & 7)) & 1) {
      for (let runs = u16(); runs > 0; runs--) {
        const first = u16()
        for (let more = u16(), step = 0; step <= more; step++) add(high + first + step)
      }
    } else if (cardinality <= 4096) {
      for (let number = 0; number < cardinality; number++) add(high + u16())
    } else {
      for (let bit = 0; bit < 65536; bit++) if ((data[at + (bit >> 3)] >> (bit & 7)) & 1) add(high + bit)
      at += 8192
    }
  })
  return at
}
