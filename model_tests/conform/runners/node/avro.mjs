// Avro containers: manifests, manifest lists, index manifests and data files.

import { inflateRawSync } from 'node:zlib'
import avro from 'avsc'
import { decompress } from 'fzstd'
import { decoding, expect } from './damaged.mjs'

const CODECS = { null: (data) => data, deflate: inflateRawSync, zstandard: (data) => Buffer.from(decompress(data)) }
const LONG = avro.types.LongType.__with({
  fromBuffer: (data) => data.readBigInt64LE(),
  toBuffer: (value) => {
    const data = Buffer.alloc(8)
    data.writeBigInt64LE(value)
    return data
  },
  fromJSON: BigInt,
  toJSON: String,
  isValid: (value) => typeof value === 'bigint',
  compare: (a, b) => (a < b ? -1 : a > b ? 1 : 0),
})
const HEADER = avro.Type.forSchema({ type: 'map', values: 'bytes' })

/** Return the records of a container as they were written, a long as a BigInt. */
export function recordsOf(name, data) {
  return decoding(name, () => container(name, data))
}

function container(name, data) {
  expect(data.subarray(0, 4).toString('latin1') === 'Obj\x01', `${name}: expected an Avro container`)
  const head = HEADER.decode(data, 4)
  expect(head.offset > 0, `${name}: the header is cut off`)
  const codec = head.value['avro.codec']?.toString() ?? 'null'
  expect(codec in CODECS, `${name}: the codec ${codec} is not known`)
  const typeHook = (found) => (found === 'long' || found.type === 'long' ? LONG : undefined)
  const type = avro.Type.forSchema(JSON.parse(head.value['avro.schema'].toString()), { typeHook })
  const sync = data.subarray(head.offset, head.offset + 16)
  const found = []
  let at = head.offset + 16
  while (at < data.length) {
    const [count, sizeAt] = long(data, at)
    const [size, start] = long(data, sizeAt)
    const end = start + size
    expect(end + 16 <= data.length, `${name}: a block is cut off`)
    expect(data.subarray(end, end + 16).equals(sync), `${name}: expected the sync marker at ${end}`)
    const block = CODECS[codec](data.subarray(start, end))
    let from = 0
    for (let number = 0; number < count; number++) {
      const { value, offset } = type.decode(block, from)
      expect(offset >= 0, `${name}: a record is cut off`)
      found.push(value)
      from = offset
    }
    expect(from === block.length, `${name}: bytes of a block are left over`)
    at = end + 16
  }
  return found
}

/** Return the number in variable length at an offset, and the offset after it. */
function long(data, start) {
  let value = 0n
  let at = start
  for (let shift = 0n; ; shift += 7n) {
    const byte = data.readUInt8(at++)
    value |= BigInt(byte & 0x7f) << shift
    if (byte < 0x80) return [Number((value >> 1n) ^ -(value & 1n)), at]
  }
}
