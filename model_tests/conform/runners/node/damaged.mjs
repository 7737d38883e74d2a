// What is stored is not as the clauses say, or not known here: a read is refused, and says why.

export class Refused extends Error {}

/** Refuse the table unless `right`. */
export function expect(right, what) {
  if (!right) throw new Refused(what)
}

/** Return what `decode` returns. Whatever a library or a Buffer complains of is damage of the file `name`. */
export function decoding(name, decode) {
  try {
    return decode()
  } catch (error) {
    throw error instanceof Refused ? error : new Refused(`${name}: ${error.message}`)
  }
}
