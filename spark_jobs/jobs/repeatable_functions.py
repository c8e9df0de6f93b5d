"""Spark's expressions that are known to give the same result for the same row in every evaluation of a statement.

Spark's own flag is not enough: it calls ``aes_encrypt`` deterministic, which draws a random IV for each call. So this is a list of
known classes. Not on it are functions that use random numbers, read their task, file or partition, call
methods or user code, and functions of floats that may differ in their last digit from one machine to another (``sin``, ``ln``).
The time, the user and the current database are on it: Spark puts one value of each into the plan before it runs.
"""

from __future__ import annotations

BUILT_IN = "org.apache.spark.sql.catalyst.expressions."
"""The package of the names below. A class with one of these names in another package does not count."""

_STRUCTURE = """
    Alias AttributeReference OuterReference Literal Cast SortOrder ScalarSubquery ListQuery InSubquery Exists
    DynamicPruningSubquery LambdaFunction NamedLambdaVariable aggregate.AggregateExpression KnownNotNull TryEval With
    CommonExpressionDef CommonExpressionRef
"""
_LOGIC = """
    And Or Not EqualTo EqualNullSafe EqualNull GreaterThan GreaterThanOrEqual LessThan LessThanOrEqual Between In InSet IsNull
    IsNotNull IsNaN If CaseWhen Coalesce Nvl Nvl2 NullIf NullIfZero ZeroIfNull NaNvl Greatest Least AssertTrue RaiseError
"""
_NUMBERS = """
    Add Subtract Multiply Divide IntegralDivide Remainder Pmod UnaryMinus UnaryPositive Abs Signum Round BRound Rint Ceil Floor
    RoundCeil RoundFloor Sqrt Factorial Bin Conv Hex Unhex WidthBucket BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseCount
    BitwiseGet ShiftLeft ShiftRight ShiftRightUnsigned FormatNumber ToNumber TryToNumber TryAdd TrySubtract TryMultiply
    TryDivide TryMod Pi EulerNumber
"""
_TEXT = """
    Ascii Base64 UnBase64 BitLength OctetLength Length Chr Collate ResolvedCollation Collation Concat ConcatWs Contains
    StartsWith EndsWith Decode Encode StringDecode Elt FindInSet FormatString InitCap Left Right Levenshtein Like ILike LikeAll
    LikeAny NotLikeAll NotLikeAny RLike RegExpCount RegExpExtract RegExpExtractAll RegExpInStr RegExpReplace RegExpSubStr Lower
    Upper StringLPad StringRPad Overlay Quote Sentences SoundEx SplitPart StringInstr StringLocate StringRepeat StringReplace
    StringSpace StringSplit StringToMap StringTranslate StringTrim StringTrimBoth StringTrimLeft StringTrimRight Substring
    SubstringIndex ToBinary TryToBinary ToCharacter ParseUrl TryParseUrl Md5 Sha1 Sha2 Crc32 Murmur3Hash XxHash64
    IsValidUTF8 MakeValidUTF8
"""
_TIMES = """
    AddMonths ConvertTimezone DateAdd DateAddInterval DateAddYMInterval DateDiff DateFormatClass DateFromUnixDate DateSub
    DayName DayOfMonth DayOfWeek DayOfYear Extract FromUTCTimestamp ToUTCTimestamp FromUnixTime Hour Minute Second
    SecondWithFraction LastDay MakeDate MakeDTInterval MakeInterval MakeYMInterval MakeTimestamp MakeTimestampNTZ
    MicrosToTimestamp MillisToTimestamp SecondsToTimestamp Month MonthName MonthsBetween NextDay ParseToDate ParseToTimestamp
    Quarter SubtractDates SubtractTimestamps TimestampAddInterval TimestampAddYMInterval TimestampAdd TimestampDiff GetTimestamp
    ToUnixTimestamp UnixTimestamp TruncDate TruncTimestamp UnixDate UnixMicros UnixMillis UnixSeconds WeekDay WeekOfYear Year
    YearOfWeek ExtractANSIIntervalDays ExtractANSIIntervalHours ExtractANSIIntervalMinutes ExtractANSIIntervalSeconds
    ExtractANSIIntervalMonths ExtractANSIIntervalYears CurrentDate CurrentTime CurrentTimestamp CurrentTimeZone LocalTimestamp
    Now CurrentCatalog CurrentDatabase CurrentUser SparkVersion TypeOf
"""
_NESTED = """
    CreateArray CreateMap CreateNamedStruct GetStructField GetArrayItem GetMapValue GetArrayStructFields UpdateFields WithField
    DropField ElementAt TryElementAt Get Size ArraySize ArrayAggregate ArrayAppend ArrayCompact ArrayContains ArrayDistinct
    ArrayExcept ArrayExists ArrayFilter ArrayForAll ArrayInsert ArrayIntersect ArrayJoin ArrayMax ArrayMin ArrayPosition
    ArrayPrepend ArrayRemove ArrayRepeat ArraySort ArrayTransform ArrayUnion ArraysOverlap ArraysZip Flatten Reverse Sequence
    Slice SortArray ZipWith MapConcat MapContainsKey MapEntries MapFilter MapFromArrays MapFromEntries MapKeys MapValues
    MapZipWith TransformKeys TransformValues CsvToStructs StructsToCsv JsonToStructs StructsToJson GetJsonObject JsonObjectKeys
    LengthOfJsonArray JsonTuple variant.ParseJson Explode PosExplode Inline Stack GeneratorOuter
"""
KNOWN = frozenset(" ".join((_STRUCTURE, _LOGIC, _NUMBERS, _TEXT, _TIMES, _NESTED)).split())
"""Expressions that are evaluated on one row."""

_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_AGGREGATES = frozenset({"Count", "CountIf", "BitAndAgg", "BitOrAgg", "BitXorAgg", "BoolAnd", "BoolOr"})
_OF_ORDER = frozenset({"Min", "Max"})


def is_known_aggregate(kind: str, name: str, of_type: str) -> bool:
    """Whether an aggregate gives the same result for the same rows in any order. ``kind`` is its class, ``name`` its name in Spark,
    ``of_type`` the type of its first argument, in Spark's notation.

    Sums of floats are rounded depending on the order, and so are averages of integers, which add doubles. ``try_sum`` overflows or
    not, depending on the order. Of 0.0 and -0.0, which are equal, ``min`` and ``max`` keep the first one."""
    if kind in _OF_ORDER:
        return "float" not in of_type and "double" not in of_type
    if kind == "Sum":
        return name == "sum" and (of_type in _WHOLE or of_type.startswith("decimal"))
    if kind == "Average":
        return name in ("avg", "mean") and of_type.startswith("decimal")
    return kind in _AGGREGATES
