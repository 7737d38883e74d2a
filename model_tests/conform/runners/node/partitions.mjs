// Partitions as text: the BinaryRow that a manifest has, and the directory that it names.

import { Refused, expect } from './damaged.mjs'
import { textOf } from './values.mjs'

/** Return the texts of the values of a partition. `legacy`: the option of its name. Clauses: META-4, META-80, META-81. */
export function textsOf(data, types, legacy) {
  expect(data.readInt32BE(0) === types.length, `a partition of ${data.readInt32BE(0)} values`)
  const row = data.subarray(4)
  const start = ((types.length + 63 + 8) >> 6) * 8
  return types.map((type, number) => {
    if ((row[(number + 8) >> 3] >> ((number + 8) & 7)) & 1) return null
    return fieldText(row, start + 8 * number, type, legacy)
  })
}

function fieldText(row, at, type, legacy) {
  const [first, from] = [row.readInt32LE(at), row.readInt32LE(at + 4)]
  switch (type.kind) {
    case 'TINYINT':
      return String(row.readInt8(at))
    case 'SMALLINT':
      return String(row.readInt16LE(at))
    case 'INT':
    case 'TIME':
      return String(first)
    case 'BIGINT':
      return String(row.readBigInt64LE(at))
    case 'BOOLEAN':
      return String(row[at] !== 0)
    case 'DATE':
      return legacy ? String(first) : new Date(first * 86400000).toISOString().slice(0, 10)
    case 'DECIMAL': {
      if (type.precision <= 18) return textOf(row.readBigInt64LE(at), type)
      const hex = row.subarray(from, from + first).toString('hex')
      return textOf(BigInt.asIntN(8 * first, BigInt(`0x${hex}`)), type)
    }
    case 'TIMESTAMP': {
      const millis = Number(row.readBigInt64LE(type.precision <= 3 ? at : from))
      return timeText(millis, type.precision <= 3 ? 0 : first, type.precision, legacy)
    }
    case 'STRING':
    case 'VARCHAR':
    case 'CHAR':
      if (row[at + 7] & 0x80) return row.subarray(at, at + (row[at + 7] & 0x7f)).toString()
      return row.subarray(from, from + first).toString()
    default:
      throw new Refused(`a partition key of type ${type.kind} is not known`)
  }
}

/** Return a time as text. `nanos`: those beyond its milliseconds since 1970. */
function timeText(millis, nanos, precision, legacy) {
  const [date, time] = new Date(millis).toISOString().split('T')
  const digits = time.slice(9, 12) + String(nanos).padStart(6, '0')
  const seconds = time.slice(0, 8)
  if (legacy) {
    const fraction = digits.replace(/(000)+$/, '')
    const short = !fraction && seconds.endsWith(':00') ? seconds.slice(0, 5) : seconds
    return `${date}T${short}${fraction && `.${fraction}`}`
  }
  const fraction = digits.slice(0, precision) + digits.slice(precision).replace(/0+$/, '')
  return `${date} ${seconds}${fraction && `.${fraction}`}`
}

/** Return a name or a value as a part of a path. Clauses: META-31. */
export function inPath(text) {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\x00-\x1f\x7f"#%'*/:=?\\{}[\]^]/g, (found) => {
    return `%${found.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`
  })
}
